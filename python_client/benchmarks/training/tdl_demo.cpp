// Trains TDL2048-Demo's network for given times. The demo's own main plays a given number of games, and saves at the end.
//
//     c++ -std=c++11 -O3 -DDEMO='"…/2048.cpp"' -o tdl_demo tdl_demo.cpp
//     ./tdl_demo FOLDER SEED SECONDS [SECONDS …]
//
// At each of these times, it writes the network to FOLDER/agent-<seconds>.bin, and prints a line of JSON with file,
// seconds, moves and games. The time of saving does not count. Boards, learning and the four patterns are the demo's.

#include <chrono>
#include <cstdio>
#include <cstdlib>

#define main demo_main
#include DEMO
#undef main

int main(int count, const char* words[]) {
	if (count < 4) return 2;
	const std::string folder = words[1];
	std::srand(std::atoi(words[2]));

	learning network;
	network.add_feature(pattern({ 0, 1, 2, 3, 4, 5 }));
	network.add_feature(pattern({ 4, 5, 6, 7, 8, 9 }));
	network.add_feature(pattern({ 0, 1, 2, 4, 5, 6 }));
	network.add_feature(pattern({ 4, 5, 6, 8, 9, 10 }));

	using clock = std::chrono::steady_clock;
	clock::duration saving(0);
	const clock::time_point start = clock::now();
	long long games = 0, moves = 0;
	for (int mark = 3; mark < count; ++mark) {
		const double wanted = std::atof(words[mark]);
		double seconds = 0;
		std::vector<move> path;
		while (seconds < wanted) {
			board state;
			state.init();
			move best = network.select_best_move(state);
			for (path.clear(); best.is_valid(); best = network.select_best_move(state)) {
				path.push_back(best);
				state = best.afterstate();
				state.popup();
			}
			moves += path.size();
			path.push_back(best);  // the terminal state, which learning expects at the end
			network.learn_from_episode(path, 0.1f);
			++games;
			seconds = std::chrono::duration<double>(clock::now() - start - saving).count();
		}
		const clock::time_point before = clock::now();
		const std::string file = std::string("agent-") + words[mark] + ".bin";
		network.save(folder + "/" + file);
		saving += clock::now() - before;
		std::printf(
			"{\"file\": \"%s\", \"seconds\": %.3f, \"moves\": %lld, \"games\": %lld}\n",
			file.c_str(), seconds, moves, games);
		std::fflush(stdout);
	}
}
