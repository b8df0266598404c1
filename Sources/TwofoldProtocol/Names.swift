// The protocol's messages by the names that proto/ gives them, without the generator's prefix.

public typealias Request = Twofold_V1_Request
public typealias Reply = Twofold_V1_Reply
public typealias WireError = Twofold_V1_Error
public typealias ErrorCode = Twofold_V1_ErrorCode
public typealias HelloRequest = Twofold_V1_HelloRequest
public typealias HelloReply = Twofold_V1_HelloReply
public typealias EnvironmentInfo = Twofold_V1_EnvironmentInfo
public typealias CreateRequest = Twofold_V1_CreateRequest
public typealias CreateReply = Twofold_V1_CreateReply
public typealias ResetRequest = Twofold_V1_ResetRequest
public typealias ArrayLayout = Twofold_V1_ArrayLayout
public typealias PayloadLayoutMessage = Twofold_V1_PayloadLayout
public typealias SpaceMessage = Twofold_V1_Space
public typealias Game2048Config = Twofold_V1_Game2048Config
