"""What the experiments on CIFAR-10 train, and how: apart from torch, so that it can be read without it."""

#: Channels of VGG-11's convolutions; a pooling step by two follows where there is a 0.
VGG11 = (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0)
#: The same with few channels, for a quick run on a processor.
TINY = (8, 0, 16, 0, 16, 0, 16, 0, 16, 0)
LEARNING_RATE, MOMENTUM = 0.1, 0.5
#: Longer gradients are cut to this length: one client whose steps explode would spoil the mean of all.
LONGEST_SLOPE = 5.0
#: Local epochs of a client in a round.
EPOCHS = 3
#: Clients that train at a time: more fill a GPU no better.
TOGETHER = 96
